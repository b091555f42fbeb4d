package sse

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// read parses the chunks and writes each event as name=data, the tail last.
func read(t testing.TB, limit int, chunks ...[]byte) (events []string, tail string, err error) {
	t.Helper()
	p := Parser{Limit: limit}
	for _, c := range chunks {
		err = p.Write(c, func(e Event) { events = append(events, e.Name+"="+string(e.Data)) })
	}
	if e, ok := p.Tail(); ok {
		tail = e.Name + "=" + string(e.Data)
	}
	return events, fmt.Sprintf("%s #%d", tail, p.Comments()), err
}

func TestParser(t *testing.T) {
	cases := []struct {
		name, body string
		events     []string
		tail       string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{"=a", "=b"}, " #0"},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"=a", "=b"}, " #0"},
		{"CRLF inside an event", "data: a\r\ndata: b\r\n\r\n", []string{"=a\nb"}, " #0"},
		{"lone CR", "data: a\r\rdata: b\r\r", []string{"=a", "=b"}, " #0"},
		{"mixed ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []string{"=a", "=b", "=c"}, " #0"},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []string{"=a"}, " #0"},
		{"a second mark is part of the name", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n", nil, " #0"},
		{"a mark later is part of the name", "data: a\n\n\xEF\xBB\xBFdata: b\n\n", []string{"=a"}, " #0"},
		{"comments", ": keep-alive\n\n:\ndata: a\n: x\ndata: b\n\n", []string{"=a\nb"}, " #3"},
		{"several data lines", "data: a\ndata\ndata:b\n\n", []string{"=a\n\nb"}, " #0"},
		{"one space only is dropped", "data:  a \n\n", []string{"= a "}, " #0"},
		{"event name", "event: error\ndata: a\n\ndata: b\n\n", []string{"error=a", "=b"}, " #0"},
		{"name without data is none", "event: ping\n\ndata: b\n\n", []string{"=b"}, " #0"},
		{"empty data is an event", "data:\n\n", []string{"="}, " #0"},
		{"other fields", "id: 1\nretry: 5\nfoo\ndata: a\n\n", []string{"=a"}, " #0"},
		{"tail without blank line", "data: a\n\ndata: b\n", []string{"=a"}, "=b #0"},
		{"tail inside a line", "data: a\n\nevent: x\ndata: b", []string{"=a"}, "x=b #0"},
		{"tail inside a name", "data: a\n\nda", []string{"=a"}, " #0"},
		{"tail comment", "data: a\n\n: b", []string{"=a"}, " #0"},
		{"nothing", "", nil, " #0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			for k := 0; k <= len(body); k++ {
				events, tail, err := read(t, 0, body[:k], body[k:])
				if err != nil || !slices.Equal(events, c.events) || tail != c.tail {
					t.Fatalf("split at %d: events %q tail %q error %v; want %q, %q", k, events, tail, err, c.events, c.tail)
				}
			}
			if events, tail, _ := read(t, 0, oneByte(body)...); !slices.Equal(events, c.events) || tail != c.tail {
				t.Fatalf("one byte at a time: events %q tail %q; want %q, %q", events, tail, c.events, c.tail)
			}
		})
	}
}

func TestParserLongLine(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	events, _, err := read(t, 0, []byte("data: "+long+"\n\n"))
	if err != nil || len(events) != 1 || events[0] != "="+long {
		t.Fatalf("a line of 1 MiB: %d events, error %v; want it whole", len(events), err)
	}
}

func TestParserLimit(t *testing.T) {
	body := []byte("data: 1234\n\ndata: 123\ndata: 4567\n\ndata: z\n\n")
	for k := 0; k <= len(body); k++ {
		events, _, err := read(t, 12, body[:k], body[k:])
		if !errors.Is(err, ErrTooLong) || !slices.Equal(events, []string{"=1234"}) {
			t.Fatalf("split at %d: events %q, error %v; want one event, then ErrTooLong", k, events, err)
		}
	}
}

func TestTailChangesNothing(t *testing.T) {
	p := Parser{}
	var got []string
	emit := func(e Event) { got = append(got, string(e.Data)) }
	for _, b := range oneByte([]byte("data: a\ndata: b\n\ndata: c\n\n")) {
		p.Tail()
		if err := p.Write(b, emit); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, []string{"a\nb", "c"}) {
		t.Fatalf("events %q; want a\\nb and c", got)
	}
}

func FuzzParserSplit(f *testing.F) {
	f.Add([]byte("event: e\r\ndata: a\r\n\r\n: c\n\ndata: b"), uint16(9))
	f.Add([]byte("\xEF\xBB\xBFdata: a\r\rdata:\n\n"), uint16(1))
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		k := min(int(at), len(body))
		events, tail, err := read(t, 32, body)
		for _, chunks := range [][][]byte{{body[:k], body[k:]}, oneByte(body)} {
			e, tl, er := read(t, 32, chunks...)
			if !slices.Equal(e, events) || (err == nil) != (er == nil) || err == nil && tl != tail {
				t.Fatalf("chunks %q: events %q tail %q error %v; in one piece %q, %q, %v", chunks, e, tl, er, events, tail, err)
			}
		}
	})
}

func oneByte(b []byte) [][]byte {
	return slices.Collect(slices.Chunk(bytes.Clone(b), 1))
}
