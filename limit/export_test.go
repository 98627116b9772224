package limit

// RecordSize returns for how many entries the log of a state's first window has room.
func RecordSize(st *State) int { return len(st.windows[0].(*slidingLog).record.ring) }
