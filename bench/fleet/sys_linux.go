package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// diesWithUs has a child killed when this process ends, however that comes about.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allCPU is the CPU time that the whole machine has used. It is a hundredth of a second per core too
// little or too much.
func allCPU() time.Duration {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, f := range strings.Fields(line) {
		n, _ := strconv.ParseInt(f, 10, 64)
		switch i {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, irq, softirq, steal
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// precisely calls f from a thread that can sleep for less than a millisecond, which Go's timers can't
// where the process is idle.
func precisely(f func(sleep func(time.Duration))) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f(func(d time.Duration) {
		if d > 0 {
			ts := syscall.NsecToTimespec(int64(d))
			_ = syscall.Nanosleep(&ts, nil) // if it is cut short, the next one comes early
		}
	})
}
