//go:build race

package scenario

// underRace: the race detector makes every play many times slower.
const underRace = true
