package responses

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loopd/loopd/internal/provider/httpwire"
)

// FuzzFold holds that the outcome does not depend on how the bytes were cut,
// and that no bytes make it panic: as a body, read on after a cut, and as the
// messages of a WebSocket.
func FuzzFold(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, len(b)/2)
	}
	profile := profiles["generic"]
	f.Fuzz(func(t *testing.T, body []byte, at int) {
		at = min(max(at, 0), len(body))
		whole, split := replay(profile, body).String(), replay(profile, body[:at], body[at:]).String()
		if whole != split {
			t.Fatalf("split at %d: %s\nin one piece: %s", at, split, whole)
		}
		resumed, _ := newRecorded(profile)
		resumed.Write(body[:at])
		resumed.Resume()
		resumed.Write(body[at:])
		resumed.End(httpwire.EndBroken)
		messages, _ := newRecorded(profile)
		messages.steers = newOperation(nil)
		for _, m := range [][]byte{body[:at], body[at:], body} {
			messages.Message(m)
		}
		messages.End(httpwire.EndClean)
		savedID(body)
	})
}
