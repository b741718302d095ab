package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

// addressError is an address out of reach.
type addressError struct{ addr netip.Addr }

func (e *addressError) Error() string {
	return "url leads to an address that functions of web servers may not reach"
}

// ErrorCode is url_validation_failed.
func (e *addressError) ErrorCode() string { return protocol.CodeURLValidationFailed }

func validationFailed(message string) error {
	return &bus.Error{Code: protocol.CodeURLValidationFailed, Message: message}
}

// requestFailed is the error of a request that got no answer. The text of err is not passed on where it may name
// the URL or the machine's own network.
func requestFailed(ctx context.Context, i *invocation, err error) error {
	var refused *addressError
	if errors.As(err, &refused) {
		return bus.AsError(refused)
	}
	return &bus.Error{Code: protocol.CodeHTTPRequestFailed, Message: "error sending request for url (" + i.where() + "): " + reason(ctx, err)}
}

func responseFailed(ctx context.Context, i *invocation) error {
	why := "the response broke off"
	if ctx.Err() != nil {
		why = reason(ctx, ctx.Err())
	}
	return &bus.Error{Code: protocol.CodeHTTPResponseFailed, Message: "error reading the response of (" + i.where() + "): " + why}
}

// maxReason is how many bytes of an unknown error are passed on.
const maxReason = 256

func reason(ctx context.Context, err error) string {
	var timeout net.Error
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "operation timed out"
	case ctx.Err() != nil:
		return "the caller is gone"
	case errors.As(err, &dns):
		return "the name of the host cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &certificate):
		return "the certificate of the server is not trusted"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	}
	return cut(redact.Text(err.Error()), maxReason)
}
