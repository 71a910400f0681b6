package pair

import (
	"context"

	"github.com/golang/protobuf/ptypes/empty"
	"github.com/networkservicemesh/api/pkg/api/networkservice"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/cls"
	"github.com/networkservicemesh/api/pkg/api/networkservice/mechanisms/kernel"
	"github.com/networkservicemesh/sdk-kernel/pkg/kernel/networkservice/vfconfig"
	"github.com/networkservicemesh/sdk/pkg/networkservice/core/next"
	"github.com/networkservicemesh/sdk/pkg/networkservice/utils/metadata"
	"google.golang.org/grpc"
)

type client struct{}

// NewClient offers an interface to the endpoint, and names the endpoint's end of the pair to the
// inject client before it.
func NewClient() networkservice.NetworkServiceClient {
	return new(client)
}

func (c *client) Request(ctx context.Context, request *networkservice.NetworkServiceRequest, opts ...grpc.CallOption) (*networkservice.Connection, error) {
	_, endpoint := names(request.GetConnection())
	request.MechanismPreferences = append(request.GetMechanismPreferences(), &networkservice.Mechanism{
		Cls:  cls.LOCAL,
		Type: kernel.MECHANISM,
	})
	answer, err := next.Client(ctx).Request(ctx, request, opts...)
	if err == nil {
		vfconfig.LoadOrStore(ctx, metadata.IsClient(c), &vfconfig.VFConfig{VFInterfaceName: endpoint})
	}
	return answer, err
}

func (c *client) Close(ctx context.Context, conn *networkservice.Connection, opts ...grpc.CallOption) (*empty.Empty, error) {
	vfconfig.Delete(ctx, metadata.IsClient(c))
	return next.Client(ctx).Close(ctx, conn, opts...)
}
