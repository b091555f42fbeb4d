package event

import (
	"testing"
	"time"
)

func BenchmarkEncode(b *testing.B) {
	e := Event{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", SessionID: "s", Sequence: 1, Epoch: 1, Time: time.Unix(1, 0),
		Payload: InputDelivered{InputID: "in-1", Delivery: DeliveryNewTurn, Source: "user", GenerationID: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode([]byte(foreign)); err != nil {
			b.Fatal(err)
		}
	}
}
