package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// halted reports whether a process that was sent SIGSTOP has come to a halt. Its other threads may
// run for some microseconds after kill(2) has returned.
func halted(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // without /proc there is no knowing
	}
	// pid (name) state …, where the name may have spaces and parentheses
	_, state, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	return ok && len(state) > 0 && state[0] == 'T'
}
