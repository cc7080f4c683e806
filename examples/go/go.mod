module planets

go 1.23

require quorate/store v0.0.0

replace quorate/store => ../../bindings/go
