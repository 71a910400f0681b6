package main

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// write is one message to the kernel: its bytes, and how many descriptors ride along.
type write struct {
	bytes       []byte
	descriptors int
}

// side is what one end of a connection has written.
type side struct {
	mutex  sync.Mutex
	writes []write
}

func (s *side) add(bytes []byte, descriptors int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.writes = append(s.writes, write{append([]byte(nil), bytes...), descriptors})
}

func (s *side) stream() []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []byte
	for _, write := range s.writes {
		all = append(all, write.bytes...)
	}
	return all
}

// connection is what both ends of one have written.
type connection struct {
	client, server side
}

// hop is a unix socket, and all connections to it in their order.
type hop struct {
	net.Listener
	socket      string
	mutex       sync.Mutex
	connections []*connection
	accepted    int
}

func listen(socket string) (*hop, error) {
	listener, err := net.Listen("unix", socket)
	return &hop{Listener: listener, socket: socket}, err
}

// dial connects. A socket hands out connections in the order in which they were made, so that the
// ends of each are found by counting.
func (h *hop) dial(ctx context.Context, _ string) (net.Conn, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	dialed, err := (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
	if err != nil {
		return nil, err
	}
	made := &connection{}
	h.connections = append(h.connections, made)
	return recorded{dialed.(*net.UnixConn), &made.client}, nil
}

// Accept gives the next connection.
func (h *hop) Accept() (net.Conn, error) {
	accepted, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	made := h.connections[h.accepted]
	h.accepted++
	return recorded{accepted.(*net.UnixConn), &made.server}, nil
}

// recorded is a socket that keeps what is written to it, however it is written.
type recorded struct {
	*net.UnixConn
	side *side
}

func (r recorded) Write(bytes []byte) (int, error) {
	count, err := r.UnixConn.Write(bytes)
	r.side.add(bytes[:count], 0)
	return count, err
}

// WriteMsgUnix is what descriptors are written with.
func (r recorded) WriteMsgUnix(bytes, control []byte, to *net.UnixAddr) (int, int, error) {
	count, controlCount, err := r.UnixConn.WriteMsgUnix(bytes, control, to)
	if err == nil {
		r.side.add(bytes[:count], descriptorsIn(control))
	}
	return count, controlCount, err
}

func descriptorsIn(control []byte) int {
	count := 0
	messages, _ := syscall.ParseSocketControlMessage(control)
	for i := range messages {
		rights, _ := syscall.ParseUnixRights(&messages[i])
		count += len(rights)
	}
	return count
}
