package apitest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// auditLogsVariable is the environment variable with the folder to which the API servers of all
// tests write their audit logs. Without it there are none.
const auditLogsVariable = "QUOIN_AUDIT_LOGS"

// AuditLog returns the files with the audit policy and the audit log of an API server that runs
// Quoin's processes with their roles, for make rbac-check; they are empty without QUOIN_AUDIT_LOGS.
func AuditLog() (policy, log string, err error) {
	folder := os.Getenv(auditLogsVariable)
	if folder == "" {
		return "", "", nil
	}
	if !filepath.IsAbs(folder) {
		return "", "", fmt.Errorf("%s=%q: want an absolute path", auditLogsVariable, folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", "", err
	}
	file, err := os.CreateTemp(folder, strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")+"-*.log")
	if err != nil {
		return "", "", err
	}
	return filepath.Join(directory(), "audit-policy.yaml"), file.Name(), file.Close()
}

// directory returns the folder of this package.
func directory() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Dir(here)
}
