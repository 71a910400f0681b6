package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// call is one call of gRPC, as it stands on the wire.
type call struct {
	connection                 *connection
	stream                     uint32
	sentHeaders, answerHeaders []hpack.HeaderField
	trailers                   []hpack.HeaderField
	sent, received             [][]byte
	sentStream, receivedStream []byte
}

func (c *call) path() string {
	for _, field := range c.sentHeaders {
		if field.Name == ":path" {
			return field.Value
		}
	}
	return ""
}

// callsOf reads the calls of all connections, in their order.
func callsOf(connections []*connection) ([]*call, error) {
	var all []*call
	for number, connection := range connections {
		streams := make(map[uint32]*call)
		of := func(stream uint32) *call {
			if streams[stream] == nil {
				streams[stream] = &call{connection: connection, stream: stream}
			}
			return streams[stream]
		}
		client := bytes.TrimPrefix(connection.client.stream(), []byte(http2.ClientPreface))
		err := eachFrame(client, func(frame http2.Frame) {
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				of(frame.StreamID).sentHeaders = frame.Fields
			case *http2.DataFrame:
				sent := &of(frame.StreamID).sentStream
				*sent = append(*sent, frame.Data()...)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("the client's side of connection %d: %w", number, err)
		}
		err = eachFrame(connection.server.stream(), func(frame http2.Frame) {
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				call := of(frame.StreamID)
				if frame.StreamEnded() {
					call.trailers = frame.Fields
				} else {
					call.answerHeaders = frame.Fields
				}
			case *http2.DataFrame:
				received := &of(frame.StreamID).receivedStream
				*received = append(*received, frame.Data()...)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("the server's side of connection %d: %w", number, err)
		}
		calls := make([]*call, 0, len(streams))
		for _, call := range streams {
			if call.sent, err = messages(call.sentStream); err == nil {
				call.received, err = messages(call.receivedStream)
			}
			if err != nil {
				return nil, fmt.Errorf("stream %d of connection %d: %w", call.stream, number, err)
			}
			calls = append(calls, call)
		}
		sort.Slice(calls, func(i, j int) bool { return calls[i].stream < calls[j].stream })
		all = append(all, calls...)
	}
	return all, nil
}

func eachFrame(stream []byte, take func(http2.Frame)) error {
	framer := http2.NewFramer(io.Discard, bytes.NewReader(stream))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		// A connection may be cut within a frame.
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		take(frame)
	}
}

// messages takes the prefixes of gRPC off: a byte that tells of compression, four of the length.
func messages(stream []byte) ([][]byte, error) {
	var all [][]byte
	for len(stream) > 0 {
		if len(stream) < 5 {
			return nil, errors.New("a prefix is cut off")
		}
		if stream[0] != 0 {
			return nil, errors.New("a message is compressed")
		}
		end := 5 + int(binary.BigEndian.Uint32(stream[1:5]))
		if len(stream) < end {
			return nil, errors.New("a message is cut off")
		}
		all = append(all, stream[5:end])
		stream = stream[end:]
	}
	return all, nil
}
