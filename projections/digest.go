package projections

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loopd/loopd/projections/view"
)

// Range is a run of ordered rows and the hash of their keys and bytes. Stores
// that folded the same events have the same ranges, so digests of two machines
// can be compared without the rows.
type Range struct {
	First view.Key `json:"-"`
	Last  view.Key `json:"-"`
	Rows  int      `json:"rows"`
	Hash  string   `json:"hash"` // SHA-256, base64url
}

// Digest is a store at an offset as hashes of its rows.
type Digest struct {
	Offset uint64  `json:"offset"`
	Rows   uint64  `json:"rows"`
	Hash   string  `json:"hash"` // over the ranges
	Ranges []Range `json:"ranges,omitempty"`
}

// rangeRows is how many rows a range takes.
const rangeRows = 4096

// Digest hashes every row, in order.
func (s *Snapshot) Digest(ctx context.Context) (Digest, error) {
	out := Digest{Offset: s.Offset()}
	whole, part := sha256.New(), sha256.New()
	var now Range
	end := func() {
		sum := part.Sum(nil)
		part.Reset()
		now.Hash = base64.RawURLEncoding.EncodeToString(sum)
		_, _ = whole.Write(sum) // a hash takes all
		out.Ranges, now = append(out.Ranges, now), Range{}
	}
	var frame []byte
	for entry, err := range s.Rows() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return Digest{}, fmt.Errorf("projections: digest: %w", err)
		}
		if now.Rows == 0 {
			now.First = entry.Key
		}
		now.Last = entry.Key
		now.Rows++
		out.Rows++
		frame = appendFramed(appendFramed(frame[:0], entry.Key.Append(nil)), entry.Row)
		_, _ = part.Write(frame)
		if now.Rows == rangeRows {
			end()
		}
	}
	if now.Rows > 0 {
		end()
	}
	out.Hash = base64.RawURLEncoding.EncodeToString(whole.Sum(nil))
	return out, nil
}

func appendFramed(b, part []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

// Proof is what a comparison of two stores found.
type Proof struct {
	A, B        Digest
	Differences []Difference // the first ones; none = equal
}

// Equal reports whether the stores hold the same rows.
func (p Proof) Equal() bool { return len(p.Differences) == 0 }

// Prove compares two stores at one offset: by their range hashes, and, where
// these differ, row by row, up to limit rows (at least one). Stores at
// different offsets are refused with [*OffsetError].
func Prove(ctx context.Context, a, b *Store, limit int) (Proof, error) {
	var p Proof
	err := a.read(func(nowA *Snapshot) error {
		return b.read(func(nowB *Snapshot) (err error) {
			if nowA.Offset() != nowB.Offset() {
				return &OffsetError{nowA.Offset(), nowB.Offset()}
			}
			if p.A, err = nowA.Digest(ctx); err != nil {
				return err
			}
			if p.B, err = nowB.Digest(ctx); err != nil || p.A.Hash == p.B.Hash {
				return err
			}
			p.Differences, err = compare(ctx, nowA, nowB, limit)
			return err
		})
	})
	return p, err
}
