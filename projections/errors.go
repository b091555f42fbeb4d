package projections

import (
	"errors"
	"fmt"

	"github.com/loopd/loopd/projections/view"
)

// ErrCorrupt says that a store's own bytes cannot be read: rebuild it beside.
var ErrCorrupt = errors.New("the store is damaged (rebuild it from the log)")

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("the store is closed")

// ForeignStreamError says that a store folds another stream than the one at
// hand.
type ForeignStreamError struct {
	Dir    string
	Stored Stream // what the store folds
	Given  Stream // what it was opened for
}

func (e *ForeignStreamError) Error() string {
	return fmt.Sprintf("projections: open %s: the store folds stream %s, not %s; rebuild it, or point at the store of this stream",
		e.Dir, e.Stored, e.Given)
}

// VersionError says that a store was folded by other views than this binary's.
type VersionError struct {
	Dir          string
	Stored, Want []view.Version
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("projections: open %s: the store holds the views %v, this program folds %v; rebuild it from the log",
		e.Dir, e.Stored, e.Want)
}

// OffsetError says that two stores cannot be compared: they have folded
// different parts of the log.
type OffsetError struct{ A, B uint64 }

func (e *OffsetError) Error() string {
	return fmt.Sprintf("projections: compare: one store is at offset %d, the other at %d; fold both to the same", e.A, e.B)
}

// InUseError says that another process, or another part of this one, has a
// store or a directory of builds.
type InUseError struct {
	Dir string
	Use string // what it is used for
	Err error
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("projections: %s is in use to %s by another process; stop that one, or give each projector a directory of its own", e.Dir, e.Use)
}

func (e *InUseError) Unwrap() error { return e.Err }
