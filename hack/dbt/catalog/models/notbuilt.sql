-- hack/dbt/catalogs does not build it.
select 1 as sensor_id
