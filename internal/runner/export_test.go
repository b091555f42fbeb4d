package runner

// Draining reports whether Close has begun.
func (r *Runner) Draining() bool { return r.draining.Load() }
