package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// A view shows how the fleet stands while it runs.
type view interface{ stop() }

func newView(f *fleet) view {
	if out, ok := f.Out.(*os.File); ok && term.IsTerminal(int(out.Fd())) {
		return newTable(f, out)
	}
	return newLines(f)
}

// table is for a terminal: a row for each worker, and one for the fleet. The library draws several rows,
// which that of the other examples doesn't, and brings three small modules.
type table struct {
	rows   *mpb.Progress
	bars   []*mpb.Bar
	update func()
	end    func() // of the updates
}

func newTable(f *fleet, out io.Writer) *table {
	t := &table{rows: mpb.New(mpb.WithOutput(out), mpb.WithWidth(30), mpb.WithAutoRefresh())}
	row := func(total int, name string, says func() string) *mpb.Bar {
		b := t.rows.AddBar(int64(total),
			mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return says() })))
		t.bars = append(t.bars, b)
		return b
	}
	for _, p := range f.workers {
		row(p.share, fmt.Sprintf("worker %d", p.number), p.String)
	}
	row(f.Requests, "fleet", f.String)
	t.update = func() {
		for i, p := range f.workers {
			s, _ := p.status()
			t.bars[i].SetCurrent(int64(s.OK))
		}
		_, ok := f.totals()
		t.bars[len(f.workers)].SetCurrent(int64(ok))
	}
	t.end = every(50*time.Millisecond, t.update)
	return t
}

// stop leaves the table as it is at the end.
func (t *table) stop() {
	t.end()
	t.update()
	for _, b := range t.bars {
		b.Abort(false) // of one that isn't full; nothing to one that is
	}
	t.rows.Wait()
}

// String is how the worker stands.
func (p *process) String() string {
	s, _ := p.status()
	line := fmt.Sprintf("sent %4d  waiting %3d", s.Sent, s.Waiting)
	if err := p.exit(); err != nil {
		line += "  " + err.Error()
	}
	return line
}

// lines is for a pipe or a file: a line a second, and one at the end.
type lines struct {
	end   func()
	print func()
}

func newLines(f *fleet) lines {
	start := time.Now()
	print := func() {
		fmt.Fprintf(f.Out, "%3.1fs  %v  by worker", time.Since(start).Seconds(), f)
		for _, p := range f.workers {
			s, _ := p.status()
			fmt.Fprintf(f.Out, " %d", s.Sent)
		}
		fmt.Fprintln(f.Out)
	}
	return lines{every(time.Second, print), print}
}

func (l lines) stop() {
	l.end()
	l.print()
}
