select customer_id, name, 0.0 as lifetime_value, true as is_active from {{ ref('stg_customers') }}
