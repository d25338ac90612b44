{% macro from_cents(column) %}({{ column }} / 100.0)::numeric(16, 2){% endmacro %}
