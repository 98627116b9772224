package bench
import ("context";"runtime";"slices";"sync";"testing";"time"
"github.com/outflow-go/outflow/leakyqueue";"github.com/outflow-go/outflow/limit")
func TestDbg(t *testing.T){
	run := func(wait func(context.Context) error) (time.Duration, time.Duration) {
		stops := make([]context.CancelFunc, 100000)
		var begun, ended sync.WaitGroup
		begun.Add(len(stops))
		runtime.GC()
		t0 := time.Now()
		for i := range stops { var ctx context.Context; ctx, stops[i] = context.WithCancel(context.Background()); ended.Go(func(){ begun.Done(); _ = wait(ctx) }) }
		begun.Wait()
		s := time.Since(t0)
		time.Sleep(100*time.Millisecond)
		runtime.GC()
		t0 = time.Now()
		for _, s := range stops { s() }
		ended.Wait()
		return s, time.Since(t0)
	}
	var ps, pc, qs, qc []time.Duration
	for range 15 {
		s, c := run(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		ps, pc = append(ps, s), append(pc, c)
		q, _ := leakyqueue.New(leakyqueue.Config{MaxWaiting: -1}, limit.PerSecond(0.0002))
		_ = q.Wait(t.Context())
		s, c = run(q.Wait)
		qs, qc = append(qs, s), append(qc, c)
	}
	med := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	t.Logf("parked start %v cancel %v; queue start %v %.2f cancel %v %.2f", med(ps), med(pc), med(qs), float64(med(qs))/float64(med(ps)), med(qc), float64(med(qc))/float64(med(pc)))
}
