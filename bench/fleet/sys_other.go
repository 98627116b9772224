//go:build !linux

package main

import (
	"syscall"
	"time"
)

// What only Linux tells is 0 here.

func diesWithUs() *syscall.SysProcAttr { return nil }

func ownCPU() time.Duration { return 0 }

func allCPU() time.Duration { return 0 }

func precisely(f func(sleep func(time.Duration))) { f(time.Sleep) }
