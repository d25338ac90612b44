// Package databases provides the databases on which benches run.
package databases

import (
	"path/filepath"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

// Database is an empty database.
type Database struct {
	// Name is that of the database system.
	Name string
	URL  string
}

// Databases are one database of each supported system.
type Databases struct {
	PostgreSQL, SQLite Database
	// Server is the server of the PostgreSQL database. The caller must stop it.
	Server *postgrestest.Server
}

// Start starts a PostgreSQL server with a database. The SQLite database is a file in folder.
func Start(folder string) (*Databases, error) {
	server, err := postgrestest.New()
	if err != nil {
		return nil, err
	}
	url, err := server.NewDatabase()
	if err != nil {
		server.Stop()
		return nil, err
	}
	return &Databases{
		PostgreSQL: Database{Name: "PostgreSQL", URL: url},
		SQLite:     Database{Name: "SQLite", URL: "sqlite://" + filepath.Join(folder, "content.db")},
		Server:     server,
	}, nil
}
