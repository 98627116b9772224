package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// workerEnv is set in the environment of a worker. It is no flag, so that the test binary can be a worker,
// too.
const workerEnv = "OUTFLOW_FLEET_WORKER"

func isWorker() bool { return os.Getenv(workerEnv) != "" }

// patience is how long a worker that is told to stop may take for it.
const patience = 2 * time.Second

// A process is a worker as its parent knows it.
type process struct {
	number int // from 1
	share  int // of the requests
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ready  chan struct{} // closed when it waits for its job, or is gone
	done   chan struct{} // closed when it is gone

	mu    sync.Mutex // guards what follows
	last  status
	heard time.Time // when it said that
	err   error     // why it ended, if it wasn't done
}

// startProcess starts this program as a worker. It is told to stop when ctx ends, and if it doesn't, killed.
func startProcess(ctx context.Context, number, share int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		number: number, share: share,
		cmd:   exec.CommandContext(ctx, self),
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), workerEnv+"=1")
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = patience
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Cancel = p.stdin.Close
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("worker %d: %w", number, err)
	}
	go p.listen(stdout)
	return p, nil
}

// listen hears what the worker says until it is gone.
func (p *process) listen(stdout io.Reader) {
	defer close(p.done)
	said := json.NewDecoder(stdout)
	var s status
	first := true
	for ; said.Decode(&s) == nil; s = (status{}) { // a field that is missing is 0
		p.mu.Lock()
		p.last, p.heard = s, time.Now()
		p.mu.Unlock()
		if first {
			close(p.ready)
			first = false
		}
	}
	if first {
		close(p.ready)
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
}

// do gives the worker its job. If it is gone, listen finds out.
func (p *process) do(j job) { _ = json.NewEncoder(p.stdin).Encode(j) }

// status is what the worker said last, and when.
func (p *process) status() (status, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.heard
}

// exit is why the worker ended, if it wasn't done.
func (p *process) exit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// failure is what one of its requests ended with, or the worker itself; nil: all is well.
func (p *process) failure() error {
	if err := p.exit(); err != nil {
		return fmt.Errorf("worker %d: %w", p.number, err)
	}
	if s, _ := p.status(); s.Error != "" {
		return fmt.Errorf("worker %d: %s", p.number, s.Error)
	}
	return nil
}
