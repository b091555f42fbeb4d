// Package arch holds the architecture and the house rules as tests: which
// package may import what, and how large a function, a file and a package may
// grow.
//
// Invariants
//
//  1. Every package of the module has a row in [Table]; a package without one
//     is a finding.
//  2. A rule reads the tree as files, not as builds: what another platform or
//     a build tag would compile is judged too.
//  3. Every rule has a test that plants a violation and sees it found.
//
// It does not judge what only a compiler sees (go vet, staticcheck do), and it
// does not look into indirect imports: a row speaks of what its own files
// name.
package arch
