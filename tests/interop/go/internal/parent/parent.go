// Package parent ties a program to the one that has started it.
package parent

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// EndWith kills the program when the thread ends that has started it: a harness that is killed ends
// nobody.
func EndWith() error {
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	if err != nil {
		return fmt.Errorf("prctl PR_SET_PDEATHSIG: %w", err)
	}
	return nil
}
