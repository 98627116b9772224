package redistest

import (
	"os"
	"os/exec"
	"runtime"
)

// process is a redis-server that was started and that may have ended since.
type process struct {
	*os.Process
	exited chan struct{} // closed when it has ended and is no zombie any more
}

// startProcess starts redis-server in a directory. What it prints is appended to a log.
func startProcess(path, dir, log string, args []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = diesWithParent()

	started := make(chan error)
	p := &process{exited: make(chan struct{})}
	go func() {
		// On Linux the parent that the child dies with is the thread that forked it, and not the process
		// (golang/go#27505). This one does nothing else until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		out.Close()
		p.Process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		cmd.Wait() // the status is that of a killed process, or is told by the log
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill returns when the process is gone, and with it its port.
func (p *process) kill() {
	p.Kill() // fails only when it is gone already
	<-p.exited
}
