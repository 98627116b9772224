package main

// What parent and worker tell each other, a line of JSON each: the worker says what it has done when it
// starts and whenever that changes, and the parent answers the first with a job. When its standard input
// ends, the worker stops: so it does when the parent is gone, however that went.

// A job is what a worker is to do.
type job struct {
	Requests int    // to make
	URL      string // of the upstream
	Redis    string // its address
	Prefix   string // of the keys there
	Fleet    int    // workers, this one included
	Without  bool   // make them without outflow
}

// A status is what a worker has done until now.
type status struct {
	Sent    int // requests that went over the wire
	Waiting int // requests that wait for their turn
	OK      int // requests that succeeded
	Error   string
}
