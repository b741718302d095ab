package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

// Limits of an error that a server answers with, in bytes.
const (
	maxCode    = 128
	maxMessage = 8 << 10
)

// answer is what a response means.
func answer(ctx context.Context, i *invocation, res *http.Response) (json.RawMessage, error) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		// What follows is another protocol.
		if err := res.Body.Close(); err != nil {
			return nil, responseFailed(ctx, i)
		}
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxBody+1))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, responseFailed(ctx, i)
	}
	if len(body) > MaxBody {
		return nil, &bus.Error{Code: protocol.CodeInvalidResponse, Message: fmt.Sprintf("the response is larger than %d bytes", MaxBody)}
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, httpError(res.StatusCode, body)
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil, nil
	}
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	if string(body) == "null" {
		return nil, nil
	}
	return body, nil
}

// httpError is the error of a status from 400 on.
func httpError(status int, body []byte) error {
	var b struct {
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &b) == nil && b.Error != nil && b.Error.Code != "" {
		return &bus.Error{Code: cut(b.Error.Code, maxCode), Message: cut(redact.Text(b.Error.Message), maxMessage)}
	}
	return &bus.Error{Code: protocol.CodeHTTPError, Message: strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))}
}

// checkJSON refuses what no frame can carry, in the words of the iii engine.
func checkJSON(body []byte) error {
	var syntax *json.SyntaxError
	var v json.RawMessage
	err := json.Unmarshal(body, &v)
	switch {
	case errors.As(err, &syntax):
		before := body[:min(max(int(syntax.Offset)-1, 0), len(body))]
		line := 1 + bytes.Count(before, []byte("\n"))
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return &bus.Error{Code: protocol.CodeInvalidResponse, Message: fmt.Sprintf("expected value at line %d column %d", line, column)}
	case err != nil:
		return &bus.Error{Code: protocol.CodeInvalidResponse, Message: "the response is not JSON"}
	}
	if _, err := protocol.Encode(&protocol.InvocationResult{InvocationID: sampleID, Result: body}); err != nil {
		return &bus.Error{Code: protocol.CodeInvalidResponse, Message: "the response cannot be carried by the bus: " + err.Error()}
	}
	return nil
}

// sampleID is the id of a frame that is never sent.
const sampleID = "00000000-0000-4000-8000-000000000000"

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
