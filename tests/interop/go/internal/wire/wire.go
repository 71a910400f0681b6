// Package wire is what all programs have in common on the wire: plain sockets that carry
// descriptors, and tokens that nobody has signed.
package wire

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/edwarnicke/grpcfd"
	"github.com/networkservicemesh/sdk/pkg/tools/token"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Tokens are JWTs without a signature: of that name, for so long.
func Tokens(name string, life time.Duration) token.GeneratorFunc {
	return func(credentials.AuthInfo) (string, time.Time, error) {
		expires := time.Now().Add(life)
		claims, err := json.Marshal(map[string]any{"sub": name, "exp": expires.Unix()})
		if err != nil {
			return "", time.Time{}, err
		}
		encode := base64.RawURLEncoding.EncodeToString
		// The signature is empty (RFC 7519, section 6).
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + ".", expires, nil
	}
}

// onPlainSockets sends its credentials also where nothing is encrypted.
type onPlainSockets struct {
	credentials.PerRPCCredentials
}

func (onPlainSockets) RequireTransportSecurity() bool {
	return false
}

// DialOptions are those of a client.
func DialOptions(tokens token.GeneratorFunc) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(grpcfd.TransportCredentials(insecure.NewCredentials())),
		grpc.WithDefaultCallOptions(
			grpc.WaitForReady(true),
			grpc.PerRPCCredentials(onPlainSockets{token.NewPerRPCCredentials(tokens)}),
		),
		// Those of a call would replace the default ones, and its descriptors the tokens.
		grpcfd.WithChainUnaryInterceptor(),
		grpcfd.WithChainStreamInterceptor(),
	}
}

// ServerOptions are those of a server.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(grpcfd.TransportCredentials(insecure.NewCredentials())),
	}
}
