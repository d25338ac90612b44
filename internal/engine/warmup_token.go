package engine

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// WarmUpToken is a data API token for one question: without a security context, and good for
// a minute. secret is the API secret of the environment.
func WarmUpToken(secret string, now time.Time) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}).SignedString([]byte(secret))
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}
