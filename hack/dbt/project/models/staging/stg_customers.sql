select id as customer_id, name, email, created_at from {{ source('raw', 'customers') }}
