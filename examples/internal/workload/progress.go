package workload

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress tells somebody who waits how far the calls are.
type progress interface {
	step(err error) // one more call has ended
	stop()
}

func newProgress(out io.Writer, total int) progress {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return newBar(f, total)
	}
	return newLines(out, total)
}

// bar is for a terminal. It disappears at the end, and leaves the screen to the report. The library
// knows terminals' widths and how often to draw, and brings the fewest modules of those that do.
type bar struct{ *progressbar.ProgressBar }

func newBar(out io.Writer, total int) bar {
	return bar{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("calls"),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// Progress that can't be shown is no reason to stop the work.
func (b bar) step(error) { _ = b.Add(1) }
func (b bar) stop()      { _ = b.Finish() }

// lines is for a pipe or a file: a line a second.
type lines struct {
	out          io.Writer
	total        int
	done, failed atomic.Int64
	start        time.Time
	quit         chan struct{}
	printing     sync.WaitGroup
}

func newLines(out io.Writer, total int) *lines {
	l := &lines{out: out, total: total, start: time.Now(), quit: make(chan struct{})}
	l.printing.Go(l.print)
	return l
}

func (l *lines) step(err error) {
	if err != nil {
		l.failed.Add(1)
	}
	l.done.Add(1)
}

func (l *lines) stop() {
	close(l.quit)
	l.printing.Wait()
}

func (l *lines) print() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-second.C:
			fmt.Fprintf(l.out, "%2.0fs  %d of %d done, %d failed\n",
				time.Since(l.start).Seconds(), l.done.Load(), l.total, l.failed.Load())
		case <-l.quit:
			return
		}
	}
}
