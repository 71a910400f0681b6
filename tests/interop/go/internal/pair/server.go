package pair

import (
	"context"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/sdk-kernel/pkg/kernel/networkservice/vfconfig"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/next"
	"github.com/networkservicemesh/sdk/pkg/networkservice/utils/metadata"
)

type server struct{}

// NewServer makes the pair of a connection, and names the client's end to the inject server behind
// it. With the connection both ends go.
func NewServer() networkservice.NetworkServiceServer {
	return new(server)
}

func (s *server) Request(ctx context.Context, request *networkservice.NetworkServiceRequest) (*networkservice.Connection, error) {
	conn := request.GetConnection()
	_, established := vfconfig.Load(ctx, metadata.IsClient(s))
	if !established {
		if err := create(conn); err != nil {
			return nil, err
		}
		client, _ := names(conn)
		vfconfig.Store(ctx, metadata.IsClient(s), &vfconfig.VFConfig{VFInterfaceName: client})
	}
	answer, err := next.Server(ctx).Request(ctx, request)
	if err != nil && !established {
		// inject has moved it back.
		remove(conn)
		vfconfig.Delete(ctx, metadata.IsClient(s))
	}
	return answer, err
}

func (s *server) Close(ctx context.Context, conn *networkservice.Connection) (*empty.Empty, error) {
	_, err := next.Server(ctx).Close(ctx, conn)
	remove(conn)
	vfconfig.Delete(ctx, metadata.IsClient(s))
	return &empty.Empty{}, err
}
