//go:build !race

package scenario

const underRace = false
