package dbt

import "testing"

// TestTypes: declared types of the supported warehouses.
func TestTypes(t *testing.T) {
	for declared, want := range map[string]kind{
		"NUMBER(38,0)": number, "INT64": number, "double precision": number, "Nullable(Decimal(10, 2))": number, "LowCardinality(Nullable(UInt8))": number, "  bigint ": number,
		"numeric(12,2)": number, "BIGNUMERIC": number, "hugeint": number, "real": number,
		"timestamp(6) without time zone": moment, "TIMESTAMP_NTZ(9)": moment, "timestamptz": moment, "DateTime64(3, 'UTC')": moment, "date": moment, "TIME": moment, "datetime": moment,
		"BOOL": boolean, "boolean": boolean,
		"character varying(256)": characters, "text": characters, "json": characters, "variant": characters, "array<int64>": characters, "int[]": characters, "integer[]": characters,
		"struct<a int64, b string>": characters, "geography": characters, "interval": characters, "uuid": characters, "unknown": characters, "Array(Int64)": characters, "(((": characters, "nullable(": characters,
	} {
		if got := kindOf(declared, "created_at"); got != want {
			t.Errorf("%q: %s, want %s", declared, got, want)
		}
	}
}

// TestTypesByName: types of columns whose type is not declared.
func TestTypesByName(t *testing.T) {
	for name, want := range map[string]kind{
		"id": number, "customer_id": number, "ORDER_ID": number, "amount": number, "unit_price": number, "total": number, "item_count": number, "num_items": number, "lifetime_value": number,
		"created_at": moment, "order_date": moment, "date": moment, "updated_ts": moment, "event_time": moment,
		"is_active": boolean, "has_orders": boolean, "deleted_flag": boolean, "is_total": boolean,
		"name": characters, "status": characters, "phone_number": characters, "": characters, "country": characters, "paid": characters, "catalog": characters,
	} {
		if got := kindOf(" ", name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
