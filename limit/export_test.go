package limit

// RecordSize returns for how many entries the log of a state's first window has room.
func RecordSize(st *State) int {
	switch w := st.windows[0].(type) {
	case *slidingLog:
		return len(w.record.ring)
	case *fixedLog:
		return len(w.record.ring)
	}
	return 0
}
