package wire

import (
	"math"
	"strconv"
)

// JSONFromGateway is [JSONFromMsgpack] for a message that the gateway made, which
// may also hold what no agent may send: float64 and nil. Its result is for a JSON
// library; [Check] refuses both.
func JSONFromGateway(dst, src []byte) ([]byte, error) {
	return transcode(dst, &reader{buf: src, gateway: true})
}

// appendFraction writes a float64, if JSON can spell it.
func appendFraction(dst []byte, bits uint64) ([]byte, error) {
	const notFinite = 0x7ff // the exponent of infinity and NaN
	if bits>>52&notFinite == notFinite {
		return nil, ErrNumber
	}
	return strconv.AppendFloat(dst, math.Float64frombits(bits), 'f', -1, 64), nil
}
