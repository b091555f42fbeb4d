package replay

import "testing"

// BenchmarkObserve audits whole sessions, an event an iteration.
func BenchmarkObserve(b *testing.B) {
	records := toolSession().records()
	var bytes int64
	for _, r := range records {
		bytes += int64(len(r.Data))
	}
	b.SetBytes(bytes / int64(len(records)))
	b.ReportAllocs()
	a := New(Config{})
	for i := range b.N {
		if i%len(records) == 0 {
			a = New(Config{})
		}
		a.Observe(records[i%len(records)])
	}
}
