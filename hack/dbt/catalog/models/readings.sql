select
    cast(1 as bigint) as reading_id,
    cast('A-7' as varchar(20)) as sensor_id,
    cast('2026' as varchar(4)) as start_date,
    cast(21.5 as numeric(6, 2)) as celsius,
    cast('2026-01-01 00:00:00' as timestamp) as taken,
    true as calibrated,
    cast('12' as varchar(8)) as declared,
    cast('x' as varchar(8)) as "Mixed",
    cast('x' as varchar(8)) as undocumented
