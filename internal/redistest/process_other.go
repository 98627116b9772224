//go:build !linux

package redistest

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }

func halted(int) bool { return true }
