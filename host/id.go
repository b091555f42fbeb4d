package host

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// newID is a ULID: 48 bits of milliseconds and 80 random bits, in Crockford's
// base 32.
func newID(now time.Time) string {
	const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails: it ends the program instead
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	var id [26]byte
	for i := len(id) - 1; i >= 0; i-- {
		id[i] = digits[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(id[:])
}
