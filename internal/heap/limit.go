package heap

import "github.com/KimMachineGun/automemlimit/memlimit"

// Limit lets garbage be collected as often as needed to keep the memory of this process below nine tenths of the limit of its
// container, if there is one, and returns that in bytes. It does nothing if the environment variable GOMEMLIMIT is set.
func Limit() (int64, error) { return memlimit.Set() }
