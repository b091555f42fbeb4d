package responses

// AwaitLoss returns once a session's kept connection is known to be lost.
func AwaitLoss(a *Adapter, session string) {
	a.live.mu.Lock()
	k := a.live.kept[session]
	a.live.mu.Unlock()
	for range k.socket.inbox {
	}
}

// Running is how many operations an adapter knows of.
func Running(a *Adapter) int {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	return len(a.live.operations)
}
