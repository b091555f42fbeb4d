package view

import (
	"bytes"
	"cmp"
	"testing"

	"pgregory.net/rapid"
)

func TestKeysAreOrderedAndUnique(t *testing.T) {
	part := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 0xff, 'a'}), 0, 6, -1))
	key := rapid.Custom(func(t *rapid.T) Key {
		return Key{Name(part.Draw(t, "view")), part.Draw(t, "session"), part.Draw(t, "id")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		if rapid.Bool().Draw(t, "same view") {
			b.View = a.View
		}
		want := cmp.Or(cmp.Compare(a.View, b.View), cmp.Compare(a.Session, b.Session), cmp.Compare(a.ID, b.ID))
		if got := bytes.Compare(a.Append(nil), b.Append(nil)); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", a, b, got, want)
		}
		back, err := ParseKey(a.Append(nil))
		if err != nil || back != a {
			t.Fatalf("%v came back as %v, %v", a, back, err)
		}
		prefix := AppendPrefix(nil, a.View, a.Session)
		if inside := bytes.HasPrefix(b.Append(nil), prefix); inside != (b.View == a.View && b.Session == a.Session) {
			t.Fatalf("prefix of %v: %v inside = %v", a, b, inside)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(Key{ViewInput, "s", "in\x00-1"}.Append(nil))
	f.Add([]byte{0, 1, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKey(b)
		if err != nil {
			return
		}
		if !bytes.Equal(k.Append(nil), b) {
			t.Fatalf("%x is %v and then %x", b, k, k.Append(nil))
		}
	})
}
