// Command golden records what the Go implementation writes to its sockets, and leaves it in a folder.
package main

import (
	"fmt"
	"io"
	"math/rand"
	"os"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: golden FOLDER")
		os.Exit(2)
	}
	if err := record(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

func record(folder string) error {
	// Not quieter than this: above, the chains lose the options of a call, and with them descriptors.
	logrus.SetLevel(logrus.InfoLevel)
	logrus.SetOutput(io.Discard)
	// The ids of connections are the same every time.
	uuid.SetRand(rand.New(rand.NewSource(1)))
	for name, value := range map[string]string{
		"NODE_NAME": "worker-1", "POD_NAME": "nsc-pod", "CLUSTER_NAME": "cluster-1",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	sockets, err := os.MkdirTemp("", "golden-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(sockets) }()
	outer, inner, err := play(sockets)
	if err != nil {
		return err
	}
	return leave(folder, outer, inner)
}
