//go:build !unix

package mcp

import "os/exec"

func ownGroup(*exec.Cmd) {}

// There is no gentler signal here: the end of its input was the gentle one.
func terminate(cmd *exec.Cmd) { kill(cmd) }
func kill(cmd *exec.Cmd)      { _ = cmd.Process.Kill() }
