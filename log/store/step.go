package store

// Step does what the committer and the janitor have to do, on the caller's goroutine: one round of
// syncs with its events, and one pass of upkeep. It is for a store opened with Options.Manual, where a
// simulation decides when anything becomes durable.
func (s *Store) Step() {
	s.StepSync()
	s.janitor.pass()
}

// StepSync is the committer's part of Step.
func (s *Store) StepSync() {
	if !s.o.knobs.manual {
		panic("store: Step of a store that runs by itself")
	}
	s.committer.round()
}
