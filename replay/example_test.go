package replay_test

import (
	"fmt"
	"strings"

	"github.com/loopd/loopd/replay"
)

// An exported log is audited from its lines alone.
func ExampleAudit() {
	const log = `{"stream_seq": 1, "subject": "loop.ev.s.session.opened", "event": {"version":1,"id":"01KE0000000000000000000000","type":"session.opened","session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00.000000Z","prev":"","mode":"loop","steering":"native","provider":"p","tools":[]}}
{"stream_seq": 2, "subject": "loop.ev.s.session.idle", "event": {"version":1,"id":"01KE0000000000000000000001","type":"session.idle","session_id":"s","sequence":2,"epoch":1,"time":"2026-01-01T00:00:00.000000Z","prev":"changed","text":""}}
`
	for f, err := range replay.Audit(replay.ReadJSONL(strings.NewReader(log), replay.Config{}), replay.Config{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(f.Rule, f.Session, f.StreamSeq, strings.SplitN(f.Message, ",", 2)[0])
	}
	// Output:
	// E1 s 2 session.idle: prev "changed"
	// E3 s 2 session.idle: epoch 1 was not claimed; session.claimed is an epoch's first event
}
