package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// index tells what each file is.
type index struct {
	MadeBy      map[string]string `json:"made_by"`
	Calls       []callEntry       `json:"calls"`
	Connections []connectionEntry `json:"connections"`
}

type callEntry struct {
	Hop      string         `json:"hop"`
	Name     string         `json:"name"`
	Method   string         `json:"method"`
	Headers  headers        `json:"headers"`
	Answer   headers        `json:"answer"`
	Trailers headers        `json:"trailers"`
	Messages []messageEntry `json:"messages"`
}

type headers map[string]string

type messageEntry struct {
	File string `json:"file"`
	// Sorted is the file of the same message with its maps in order, which Go leaves to chance otherwise.
	Sorted string `json:"sorted"`
	// By the client, as all that it sends, or by the server.
	By   string `json:"by"`
	Type string `json:"type"`
	// What an event says.
	Event string `json:"event,omitempty"`
}

// connectionEntry is a whole connection: what both ends have written.
type connectionEntry struct {
	Hop    string    `json:"hop"`
	Name   string    `json:"name"`
	Client sideEntry `json:"client"`
	Server sideEntry `json:"server"`
}

type sideEntry struct {
	File string `json:"file"`
	// How many bytes each write to the socket had; a `+` behind it for each descriptor.
	Writes string `json:"writes"`
}

// versions are those of what has a part in the bytes.
func versions() map[string]string {
	made := map[string]string{"go": runtime.Version()}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/networkservicemesh/api", "github.com/networkservicemesh/sdk",
			"github.com/edwarnicke/grpcfd", "google.golang.org/grpc", "google.golang.org/protobuf":
			made[module.Path] = module.Version
		}
	}
	return made
}

// named gives the calls of a hop their names: those with an answer, and those that watch.
type named struct {
	hop             string
	unary, watching []string
	// Whose connections are kept as a whole.
	whole map[string]bool
}

func (n named) leave(folder string, hop *hop, into *index) error {
	calls, err := callsOf(hop.connections)
	if err != nil {
		return err
	}
	unary, watching := n.unary, n.watching
	for _, call := range calls {
		names := &unary
		if strings.HasSuffix(call.path(), "/MonitorConnections") {
			names = &watching
		}
		if len(*names) == 0 {
			return fmt.Errorf("%s: a call of %s that was not expected", n.hop, call.path())
		}
		name := (*names)[0]
		*names = (*names)[1:]
		entry, err := n.leaveCall(folder, name, call)
		if err != nil {
			return err
		}
		into.Calls = append(into.Calls, entry)
		if n.whole[name] {
			entry, err := n.leaveConnection(folder, name, call.connection)
			if err != nil {
				return err
			}
			into.Connections = append(into.Connections, entry)
		}
	}
	if len(unary)+len(watching) > 0 {
		return fmt.Errorf("%s: %q and %q have not been called", n.hop, unary, watching)
	}
	return nil
}

func (n named) leaveCall(folder, name string, call *call) (callEntry, error) {
	entry := callEntry{
		Hop: n.hop, Name: name, Method: call.path(),
		Headers: headersOf(call.sentHeaders), Answer: headersOf(call.answerHeaders), Trailers: headersOf(call.trailers),
	}
	sent, received := types(call.path())
	for _, of := range []struct {
		by, kind string
		messages [][]byte
	}{{"client", sent, call.sent}, {"server", received, call.received}} {
		for number, message := range of.messages {
			what := of.by
			if len(of.messages) > 1 {
				what = fmt.Sprintf("%s-%d", of.by, number+1)
			}
			left := messageEntry{File: n.file(name, what), Sorted: n.file(name, what+".sorted"), By: of.by, Type: of.kind}
			read, err := readAs(of.kind, message)
			if err != nil {
				return entry, fmt.Errorf("%s: %w", left.File, err)
			}
			left.Event = eventOf(read)
			sorted, err := proto.MarshalOptions{Deterministic: true}.Marshal(read)
			if err != nil {
				return entry, fmt.Errorf("%s: %w", left.Sorted, err)
			}
			for file, bytes := range map[string][]byte{left.File: message, left.Sorted: sorted} {
				if err := os.WriteFile(filepath.Join(folder, file), bytes, 0o644); err != nil {
					return entry, err
				}
			}
			entry.Messages = append(entry.Messages, left)
		}
	}
	return entry, nil
}

func (n named) file(name, what string) string {
	return filepath.Join(n.hop, strings.ReplaceAll(name, " ", "-")+"."+what+".bin")
}

func (n named) leaveConnection(folder, name string, connection *connection) (connectionEntry, error) {
	entry := connectionEntry{Hop: n.hop, Name: name}
	for _, end := range []struct {
		name  string
		side  *side
		entry *sideEntry
	}{{"client", &connection.client, &entry.Client}, {"server", &connection.server, &entry.Server}} {
		end.entry.File = n.file(name, end.name+"-stream")
		if err := os.WriteFile(filepath.Join(folder, end.entry.File), end.side.stream(), 0o644); err != nil {
			return entry, err
		}
		var writes []string
		for _, write := range end.side.writes {
			riding := strings.Repeat("+", write.descriptors)
			writes = append(writes, strconv.Itoa(len(write.bytes))+riding)
		}
		end.entry.Writes = strings.Join(writes, " ")
	}
	return entry, nil
}

func headersOf(fields []hpack.HeaderField) headers {
	all := headers{}
	for _, field := range fields {
		all[field.Name] = field.Value
	}
	return all
}

// types are the names of what a method takes and gives.
func types(method string) (sent, received string) {
	switch method[strings.LastIndex(method, "/")+1:] {
	case "Request":
		return "networkservice.NetworkServiceRequest", "connection.Connection"
	case "Close":
		return "connection.Connection", "google.protobuf.Empty"
	default:
		return "connection.MonitorScopeSelector", "connection.ConnectionEvent"
	}
}

// readAs reads a message of that type.
func readAs(kind string, bytes []byte) (proto.Message, error) {
	var message proto.Message
	switch kind {
	case "networkservice.NetworkServiceRequest":
		message = &networkservice.NetworkServiceRequest{}
	case "connection.Connection":
		message = &networkservice.Connection{}
	case "connection.MonitorScopeSelector":
		message = &networkservice.MonitorScopeSelector{}
	case "connection.ConnectionEvent":
		message = &networkservice.ConnectionEvent{}
	case "google.protobuf.Empty":
		message = &emptypb.Empty{}
	default:
		return nil, fmt.Errorf("no message has the type %s", kind)
	}
	return message, proto.Unmarshal(bytes, message)
}

// eventOf says what an event is, for those who look for one.
func eventOf(message proto.Message) string {
	event, ok := message.(*networkservice.ConnectionEvent)
	if !ok {
		return ""
	}
	words := []string{event.GetType().String()}
	for _, connection := range event.GetConnections() {
		words = append(words, connection.GetState().String())
	}
	return strings.Join(words, " ")
}

// leave writes everything, and last what there is.
func leave(folder string, outer, inner *hop) error {
	all := &index{MadeBy: versions()}
	for _, hop := range []struct {
		*hop
		named
	}{
		{outer, named{
			hop:      "nsc-forwarder",
			unary:    []string{"first request", "refused refresh", "refresh", "close to reselect", "reselect", "close"},
			watching: []string{"watch an id", "watch a path"},
			whole:    map[string]bool{"first request": true, "refresh": true, "close": true},
		}},
		{inner, named{
			hop:      "forwarder-nse",
			unary:    []string{"first request", "refused refresh", "refresh", "close to reselect", "reselect", "close"},
			watching: []string{"relay", "relay of the refresh", "relay of the reselect"},
			whole:    map[string]bool{"first request": true},
		}},
	} {
		if err := os.MkdirAll(filepath.Join(folder, hop.named.hop), 0o755); err != nil {
			return err
		}
		if err := hop.leave(folder, hop.hop, all); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "index.json"), append(text, '\n'), 0o644)
}
