// Package bench compares outflow with what people use today, side by side in one run. It is a module
// of its own, so that the peers stay out of the library's go.mod.
//
//	go -C bench test -run '^$' -bench . -benchmem -count 5
//
// What shares one quota through Redis is compared by the command fleet, which prints tables:
//
//	go -C bench run ./fleet
//
// Machines are noisy: what counts are the ratios of the medians within one run.
package bench
