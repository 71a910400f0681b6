// Package program is the frame of each program: its end, its log, and settings that several have.
package program

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/networkservicemesh/sdk/pkg/networkservice/chains/endpoint"
	"github.com/networkservicemesh/sdk/pkg/tools/log"
	"github.com/networkservicemesh/sdk/pkg/tools/log/logruslogger"
	"github.com/sirupsen/logrus"

	"interop/go/internal/parent"
	"interop/go/internal/wire"
)

// URL is a setting.
func URL(name, usage string) *url.URL {
	value := new(url.URL)
	flag.Func(name, usage, func(text string) error {
		parsed, err := url.Parse(text)
		if err == nil {
			*value = *parsed
		}
		return err
	})
	return value
}

// Life is the setting of how long the tokens of a program live.
func Life() *time.Duration {
	return flag.Duration("max-token-lifetime", 10*time.Minute, "how long a token lives")
}

// Run reads the settings and runs the program. Its first context lives until the program is asked to
// end, its second one as long as the program.
func Run(run func(asked, ctx context.Context) error) {
	level := flag.String("log-level", "INFO", "what is logged")
	flag.Parse()
	if err := parent.EndWith(); err != nil {
		Fail(err)
	}

	asked, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	parsed, err := logrus.ParseLevel(*level)
	if err != nil {
		Fail(err)
	}
	logrus.SetLevel(parsed)
	// Without it the elements are not wrapped, as they are in every program of the mesh.
	log.EnableTracing(true)
	ctx := log.WithLog(context.Background(), logruslogger.New(context.Background()))
	if err := run(asked, ctx); err != nil {
		Fail(err)
	}
}

// Fail ends the program.
func Fail(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	os.Exit(1)
}

// Serve serves until the program is asked to end.
func Serve(asked context.Context, listenOn *url.URL, server endpoint.Endpoint) error {
	errs := endpoint.Serve(asked, listenOn, server, wire.ServerOptions()...)
	select {
	case <-asked.Done():
		return nil
	case err := <-errs:
		return err
	}
}
