package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outflow-go/outflow/examples/internal/workload"
)

// atOnce is how many goroutines of a worker make requests.
const atOnce = 16

// sayEvery is how often a worker tells how many of its requests wait, if nothing else has changed.
const sayEvery = 100 * time.Millisecond

// workerMain is the main function of a worker.
func workerMain() {
	// Ctrl-C goes to all processes of a terminal. The parent hears it, and ends the workers in order.
	signal.Ignore(os.Interrupt)
	if err := work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// work does the job that in names, and tells out about it.
func work(in io.Reader, out io.Writer) error {
	parent, tell := json.NewDecoder(in), json.NewEncoder(out)
	if err := tell.Encode(status{}); err != nil {
		return err
	}
	var j job
	if err := parent.Decode(&j); err == io.EOF {
		return nil // ended before it began
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_ = parent.Decode(new(job)) // there is no other: it returns when the parent ends this, or itself
		cancel()
	}()

	c, err := newClient(j)
	if err != nil {
		return err
	}
	defer c.close()

	var (
		ok atomic.Int64
		mu sync.Mutex // one line at a time
	)
	say := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		s := status{Sent: int(c.wire.Attempts.Load()), Waiting: c.waiting(), OK: int(ok.Load())}
		if err != nil {
			s.Error = err.Error()
		}
		_ = tell.Encode(s) // without a parent, the end is near
	}

	calls := make([]workload.Call, j.Requests)
	for i := range calls {
		calls[i] = func(ctx context.Context) error {
			err := get(ctx, c.http, fmt.Sprintf("%s/things/%d", j.URL, i))
			if err == nil {
				ok.Add(1)
			}
			say(nil)
			return err
		}
	}
	stop := every(sayEvery, func() { say(nil) })
	result := workload.Run(ctx, calls, workload.Options{Workers: atOnce, Out: io.Discard})
	stop()
	say(result.FirstError)
	return nil
}

// get is what somebody with an http.Client does.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// Read to its end, the connection can be used again.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

// every calls f from time to time, until the function that it returns is called, which waits for f.
func every(interval time.Duration, f func()) (stop func()) {
	var wg sync.WaitGroup
	quit := make(chan struct{})
	wg.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}
