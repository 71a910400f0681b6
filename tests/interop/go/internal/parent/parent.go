package program

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// endsWithTheCaller kills the program when the thread ends that has started it: a harness that is
// killed ends nobody.
func endsWithTheCaller() error {
	err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	if err != nil {
		return fmt.Errorf("prctl PR_SET_PDEATHSIG: %w", err)
	}
	return nil
}
